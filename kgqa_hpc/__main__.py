"""Entry point of `python -m kgqa_hpc`, which is the same as `kgqa`."""

from kgqa_hpc.cli import main

if __name__ == "__main__":
    main()
