# expect: no_result RTE
import json
import os

json.dumps = lambda *arguments, **options: os._exit(0)
