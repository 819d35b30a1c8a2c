"""Print published against modelled figures; exit status 1 when an order is wrong."""

import sys

from .check import MEAN, mean_error, results


def main() -> int:
    wrong, seen = 0, []
    for result in results():
        seen.append(result)
        print(f"\n{result.experiment.name} ({result.experiment.device}; {result.experiment.source})")
        for row, ratio in zip(result.rows, result.ratios, strict=True):
            step = f"x{ratio[0]:.2f} -> x{ratio[1]:.2f}" if ratio else ""
            against = f"{row.modelled / row.published - 1:+.0%}" if row.absolute else ""
            print(f"  {row.what:20} {row.published:10.4g} {row.modelled:10.4g} {row.unit:8} {against:>6}  {step}")
        for sentence in result.wrong:
            print(f"  WRONG: {sentence}")
            wrong += 1
    error, n = mean_error(seen), sum(ratio is not None for result in seen for ratio in result.ratios)
    print(f"\nmean absolute error of {n} ratios: {error:.0%}; wrong: {wrong}")
    return int(wrong > 0 or error > MEAN)


sys.exit(main())
