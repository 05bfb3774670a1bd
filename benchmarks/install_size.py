"""Megabytes that installing dperm brings, for the base and for every extra: the files of all that it requires.

    python benchmarks/install_size.py

Sizes are those of the distributions in this environment, which has them all.
"""

from importlib.metadata import distribution

from packaging.requirements import Requirement


def required(name: str, extras: set[str], found: set[str]) -> set[str]:
    """Names of all distributions that `name` with these extras needs, itself included."""
    key = name.lower().replace("_", "-")
    wanted = [Requirement(line) for line in distribution(name).requires or []]
    new = key not in found
    found.add(key)
    for one in wanted:
        applies = [one.marker is None or one.marker.evaluate({"extra": extra}) for extra in extras or {""}]
        if any(applies) and (new or "extra" in str(one.marker)):
            required(one.name, one.extras, found)
    return found


def megabytes(names: set[str]) -> float:
    """Of all files but compiled Python, which pip makes itself."""
    files = {path.locate() for name in names for path in distribution(name).files or []}
    return sum(path.stat().st_size for path in files if path.is_file() and path.suffix != ".pyc") / 1e6


if __name__ == "__main__":
    base = required("dperm", set(), set())
    sizes = {name: megabytes({name}) for name in base}
    largest = ", ".join(f"{name} {sizes[name]:.0f}" for name in sorted(base, key=sizes.get, reverse=True)[:10])
    print(f"{'base':<12} {sum(sizes.values()):6.0f} MB, {len(base)} distributions: {largest}")
    for extra in distribution("dperm").metadata.get_all("Provides-Extra"):
        added = required("dperm", {extra}, set(base)) - base
        print(f"{extra:<12} {megabytes(added):+6.0f} MB: {', '.join(sorted(added)) or 'nothing'}")
