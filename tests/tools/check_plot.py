#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks a picture of `dtilec test --bench --plot`: well-formed SVG, self-contained, with its
points inside of it.

    check_plot.py FILE points=NUMBER lines=NUMBER [TEXT…]   texts are those that it must show
"""

import sys
import xml.etree.ElementTree as tree

SVG = "{http://www.w3.org/2000/svg}"


def main(path, points, lines, *texts):
    root = tree.parse(path).getroot()
    assert root.tag == SVG + "svg"
    _, _, width, height = map(float, root.get("viewBox").split())
    for element in root.iter():
        assert element.tag.startswith(SVG)
        assert not any("href" in name or name.startswith("on") for name in element.attrib)
        for name in ("x", "x1", "x2", "cx"):
            if element.get(name):
                assert 0 <= float(element.get(name)) <= width, (name, element.attrib)
        for name in ("y", "y1", "y2", "cy"):
            if element.get(name):
                assert 0 <= float(element.get(name)) <= height, (name, element.attrib)
    circles = list(root.iter(SVG + "circle"))
    assert f"points={len(circles)}" == points, len(circles)
    assert f"lines={len(list(root.iter(SVG + 'polyline')))}" == lines
    for line in root.iter(SVG + "polyline"):
        xs = [float(point.split(",")[0]) for point in line.get("points").split()]
        assert xs == sorted(xs) and len(xs) > 1
    shown = {element.text for element in root.iter(SVG + "text")}
    assert set(texts) <= shown, shown
    for circle in circles:
        assert circle.find(SVG + "title").text


main(*sys.argv[1:])
