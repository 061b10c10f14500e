"""Write what each program in this folder reports beside it: ``python -m tests.errors.write [folder/name ...]``."""

import sys

from tests.errors.mistakes import MISTAKES, expected, name_of, report


def main(wanted: list[str]) -> None:
    for path in MISTAKES:
        if not wanted or any(name_of(path).startswith(w) for w in wanted):
            expected(path).write_text(report(path), encoding="utf-8")
    for text in {p.with_suffix(".txt") for p in MISTAKES} ^ set(MISTAKES[0].parents[1].glob("*/*.txt")):
        print(f"no program has the report {text}")


if __name__ == "__main__":
    main(sys.argv[1:])
