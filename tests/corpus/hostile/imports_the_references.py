# expect: error RTE
import grader.problems
