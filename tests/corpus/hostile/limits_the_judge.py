# expect: violation SV
import resource

resource.prlimit(request["judge"], resource.RLIMIT_CPU, (1, 1))
