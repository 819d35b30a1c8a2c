# expect: WA right_values
# exercise: 00_grid_stride
# Tags and script in what is printed and raised.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i]

print("</td></tr></table><script>document.title = 'AC'</script><h1>10 / 10 points</h1>")
raise RuntimeError("<img src=x onerror=alert(1)> [bold green]AC[/] 10 / 10 points")
