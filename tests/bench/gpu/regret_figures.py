# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The figures of merit of what regret.py has measured: means, worst, percentiles, the model's
ranks, noise. Ratios are speeds of the default: another's time over the default's, so that 1 is as
fast and less is slower. Needs no GPU and no PyTorch."""

import math

import regret_log
from regret_shapes import rank_of

# How the reasons of configurations begin that a machine cannot run: no failures.
UNFIT = ("does not build", "does not launch")
# Upper ends of the classes of ranks.
RANKS = (1, 2, 3, 5, 10, 20, 50)
ROWS = (("1 to 64 rows", 1, 64), ("65 to 1024 rows", 65, 1024), ("more rows", 1025, math.inf))


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def percentile(values, share):
    """Linear between the two nearest values; `share` in percent."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * share / 100
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def histogram(places):
    """Lines `rank: count` of the model's rank of each winner; None is one that it did not rank."""
    counted, least = [], 1
    for most in (*RANKS, math.inf):
        count = sum(1 for place in places if place is not None and least <= place <= most)
        name = f"{least}" if least == most else f"{least} to {most}"
        counted.append((f"{RANKS[-1] + 1} and more" if most == math.inf else name, count))
        least = most + 1
    counted.append(("not predicted", sum(1 for place in places if place is None)))
    return [f"  {name:>13}: {count:4} {'#' * count}" for name, count in counted if count]


def cells(name, ratios):
    """A row of the table: of (ratio, key)."""
    if not ratios:
        return [name, "0", "", "", "", ""]
    values = [value for value, _ in ratios]
    worst, where = min(ratios)
    return [name, str(len(values)), f"{geometric_mean(values):.3f}",
            f"{percentile(values, 10):.3f}", f"{worst:.3f}", where]


def table(head, rows):
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |"
             for row in (head, *rows)]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]]


def groups(shapes):
    """(name, which) of the classes that the shapes fall in; `all` first."""
    yield "all", lambda shape: True
    for what in ("op", "type", "form"):
        found = sorted({shape[what] for shape in shapes if what in shape})
        if len(found) > 1:
            for value in found:
                yield value, lambda shape, value=value, what=what: shape.get(what) == value
    if any("m" in shape for shape in shapes):
        for name, least, most in ROWS:
            yield name, lambda shape, a=least, b=most: "m" in shape and a <= shape["m"] <= b
    if any("aligned" in shape for shape in shapes):
        yield "rows of 16-byte multiples", lambda shape: shape.get("aligned") is True
        yield "other rows", lambda shape: shape.get("aligned") is False


def against(shapes, ratios):
    """Rows of one table: classes that hold any of the ratios ({key: ratio})."""
    rows = []
    for name, belongs in groups(shapes):
        inside = [(ratios[shape["key"]], shape["key"]) for shape in shapes
                  if shape["key"] in ratios and belongs(shape)]
        if inside or name == "all":
            rows.append(cells(name, inside))
    return rows


def noise(shapes):
    """How far two measurements of one launch are apart, in words."""
    apart = [abs(shape["again"] / shape["default"] - 1) for shape in shapes
             if shape.get("default") and shape.get("again")]
    if not apart:
        return "timer noise: not measured"
    return (f"timer noise, the default measured twice: median {percentile(apart, 50):.1%}, "
            f"90th percentile {percentile(apart, 90):.1%}, most {max(apart):.1%} "
            f"of {len(apart)} shapes")


def predicted(lines, shapes, searched):
    """The model's ranks of the winners, and how far its times are from those measured."""
    rows = {line["shape"]: line["rows"] for line in lines if line["kind"] == "predictions"}
    places = [rank_of(line["winner"], rows[line["shape"]]) for line in searched
              if line["shape"] in rows]
    told = ["the model's rank of the measured winner: the compiler printed no predictions"]
    if places:
        told = [f"the model's rank of the measured winner, of {len(places)} shapes:",
                *histogram(places)]
    times = [shape["predicted_ns"] / (1e6 * shape["default"]) for shape in shapes
             if shape.get("predicted_ns") and shape.get("default")]
    if times:
        told.append(f"the model's time of its first choice over the default's: geometric mean "
                    f"{geometric_mean(times):.2f}, {min(times):.2f} to {max(times):.2f}")
    return told


def searches(latest, shapes, searched):
    """What the search has tried, in words, and what the model says of it."""
    told = []
    if searched:
        told.append(f"best of {min(line['measured'] for line in searched)} to "
                    f"{max(line['measured'] for line in searched)} configurations that ran, of "
                    f"{max(line['tried'] for line in searched)} tried")
    begun = {line["shape"] for line in latest if line["kind"] == "configuration"}
    if left := begun - {line["shape"] for line in searched}:
        told.append(f"{len(left)} shapes whose search is not at its end, and does not count: "
                    "go on with --resume")
    return told + (predicted(latest, shapes, searched) if searched else [])


def report(lines):
    """All figures of a log's lines, as lines of text, the short table last; and how many results
    were wrong or failed."""
    settings = regret_log.settings_in(lines) or {}
    on = regret_log.machines(lines)
    latest = [line for line in lines if line.get("on") == on[-1]] if on else []
    shapes = list({line["key"]: line for line in latest if line["kind"] == "shape"}.values())
    searched = list({line["shape"]: line for line in latest if line["kind"] == "searched"}.values())
    failed = {line["key"]: line["why"] for line in latest if line["kind"] == "failed"}
    unfit = sum(1 for why in failed.values() if why.startswith(UNFIT))
    told = [f"failed, and left out: {key}: {why}" for key, why in sorted(failed.items())
            if not why.startswith(UNFIT)]
    if unfit:
        told.append(f"{unfit} configurations do not build or do not fit")
    if len(on) > 1:
        told.append(f"left out: what was measured on {'; '.join(on[:-1])}")
    told += ["", f"seed {settings.get('seed')}, {on[-1] if on else 'nothing measured'}",
             "settings: " + ", ".join(f"{name} {value}" for name, value in settings.items()
                                      if name != "seed"),
             noise(shapes)]
    told += searches(latest, shapes, searched)
    alone = sum(1 for shape in shapes if shape.get("default") and not shape.get("peer"))
    if alone:
        told.append(f"{alone} shapes that the peer does not multiply, or not rightly")
    told += ["", "Speed of the default over another's: the other's time / the default's."]
    head = ["", "shapes", "geometric mean", "10th percentile", "worst", "where"]
    peers = {shape["key"]: shape["peer"] / shape["default"] for shape in shapes
             if shape.get("peer") and shape.get("default")}
    told += table([f"over {settings.get('peer', 'the peer')}", *head[1:]], against(shapes, peers))
    if searched:
        bests = {line["shape"]: line["best"] / line["default"] for line in searched}
        told += ["", *table(["over the best", *head[1:]], against(shapes, bests))]
    failures = len(failed) - unfit
    told.append(f"{failures} wrong or failed")
    return told, failures
