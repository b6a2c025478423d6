# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parses an SVG, and says whether its boxes lie within it and apart: svg_is_well_formed.py FILE"""

import sys
import xml.etree.ElementTree


def main(path):
    root = xml.etree.ElementTree.parse(path).getroot()
    space = "{http://www.w3.org/2000/svg}"
    width, height = int(root.get("width")), int(root.get("height"))
    boxes = [tuple(int(rect.get(name)) for name in ("x", "y", "width", "height"))
             for rect in root.iter(space + "rect") if rect.get("class") in ("r", "b")]
    if not boxes:
        sys.exit("there is no box")
    for i, (x, y, w, h) in enumerate(boxes):
        if x < 0 or y < 0 or x + w > width or y + h > height:
            sys.exit(f"box {i} does not lie in the picture")
        for a, b, c, d in boxes[:i]:
            if x < a + c and a < x + w and y < b + d and b < y + h:
                sys.exit(f"box {i} lies on another one")


if __name__ == "__main__":
    main(*sys.argv[1:])
