"""`python -m benchmark` is `mlrc`."""

from benchmark.cli import main

main()
