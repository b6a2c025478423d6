#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packs the VS Code extension of this folder: a .vsix is a zip with a manifest.

    package_extension.py OUT.vsix    after `npm install --omit=dev` in this folder

Fails where what the extension needs is not installed.
"""

import json
import os
import sys
import xml.sax.saxutils
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
OWN = ["package.json", "extension.js", "language-configuration.json", "syntaxes"]
# Zip files know no time before; a fixed one makes the same bytes of the same files.
TIME = (1980, 1, 1, 0, 0, 0)

CONTENT_TYPES = """<?xml version="1.0" encoding="utf-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
%s</Types>
"""

MANIFEST = """<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
  <Metadata>
    <Identity Language="en-US" Id={name} Version={version} Publisher={publisher}/>
    <DisplayName>{display}</DisplayName>
    <Description xml:space="preserve">{description}</Description>
    <Categories>{categories}</Categories>
    <Properties>
      <Property Id="Microsoft.VisualStudio.Code.Engine" Value={engine}/>
    </Properties>
  </Metadata>
  <Installation>
    <InstallationTarget Id="Microsoft.VisualStudio.Code"/>
  </Installation>
  <Dependencies/>
  <Assets>
    <Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json"
           Addressable="true"/>
  </Assets>
</PackageManifest>
"""


def files_below(folder, names):
    """Paths relative to `folder`, in order."""
    for name in sorted(names):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            yield name
        elif os.path.isdir(path):
            for root, folders, files in os.walk(path):
                # Links to tools, and what npm notes for itself.
                folders[:] = sorted(each for each in folders if not each.startswith("."))
                for file in sorted(each for each in files if not each.startswith(".")):
                    yield os.path.relpath(os.path.join(root, file), folder)


def main(out, folder=HERE):
    with open(os.path.join(folder, "package.json"), encoding="utf-8") as file:
        package = json.load(file)
    for needed in package["dependencies"]:
        if not os.path.isdir(os.path.join(folder, "node_modules", needed)):
            sys.exit(f"{needed} is not installed: run `npm install --omit=dev` in {folder}")
    attribute, text = xml.sax.saxutils.quoteattr, xml.sax.saxutils.escape
    manifest = MANIFEST.format(
        name=attribute(package["name"]), version=attribute(package["version"]),
        publisher=attribute(package["publisher"]), display=text(package["displayName"]),
        description=text(package["description"]), categories=text(",".join(package["categories"])),
        engine=attribute(package["engines"]["vscode"]))
    paths = list(files_below(folder, OWN + ["node_modules"]))
    endings = sorted({os.path.splitext(path)[1] for path in paths if os.path.splitext(path)[1]})
    types = "".join(f'  <Default Extension="{text(ending[1:])}" ContentType="application/'
                    f'{"json" if ending == ".json" else "octet-stream"}"/>\n'
                    for ending in sorted(set(endings) | {".vsixmanifest"}))
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        def add(name, data):
            archive.writestr(zipfile.ZipInfo(name, TIME), data, zipfile.ZIP_DEFLATED)

        add("[Content_Types].xml", CONTENT_TYPES % types)
        add("extension.vsixmanifest", manifest)
        for path in paths:
            with open(os.path.join(folder, path), "rb") as file:
                add("extension/" + path.replace(os.sep, "/"), file.read())


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])
