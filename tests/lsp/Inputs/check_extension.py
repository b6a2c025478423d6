# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Holds what VS Code's extension reads and registers to what its package.json declares.

    check_extension.py FOLDER
"""

import json
import os
import re
import sys


def main(folder):
    with open(os.path.join(folder, "package.json"), encoding="utf-8") as file:
        package = json.load(file)
    with open(os.path.join(folder, package["main"]), encoding="utf-8") as file:
        code = file.read()
    contributes = package["contributes"]
    for entry in contributes["languages"]:
        assert os.path.isfile(os.path.join(folder, entry["configuration"])), entry
    for entry in contributes["grammars"]:
        assert os.path.isfile(os.path.join(folder, entry["path"])), entry
    declared = {name: value["default"]
                for name, value in contributes["configuration"]["properties"].items()}
    read = {"dtile." + name: default
            for name, default in re.findall(r'settings\.get\("([\w.]+)", ([^)]+)\)', code)}
    assert read.keys() == declared.keys(), (read, declared)
    for name, default in read.items():
        assert json.loads(default) == declared[name], name
    commands = {entry["command"] for entry in contributes["commands"]}
    registered = set(re.findall(r'registerCommand\("([\w.]+)"', code))
    assert registered == commands, (registered, commands)
    required = {name.split("/")[0] for name in re.findall(r'require\("([^"]+)"\)', code)}
    assert required - {"vscode"} == set(package["dependencies"]), required
    print("settings:", *sorted(name.partition(".")[2] for name in declared))
    print("commands:", *sorted(commands))


if __name__ == "__main__":
    main(sys.argv[1])
