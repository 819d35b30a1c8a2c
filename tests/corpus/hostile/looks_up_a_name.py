# expect: error RTE
import urllib.request

urllib.request.urlopen("http://example.org/", timeout=1)
