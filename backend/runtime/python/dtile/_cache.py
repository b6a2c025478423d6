# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Folders of what was built: who may write them, and what is thrown away."""

import os
import re
import shutil
import stat
import tempfile
import time

from ._abi import DtileInvalid

# What was built or used last before that, and what is beyond so many bytes, goes.
MOST_DAYS = 30
MOST_BYTES = 2 << 30

_MADE = re.compile(r"(lib.*-[0-9a-f]{16}\.so|.*-[0-9a-f]{16}\.(inputs|tuned?))\Z", re.DOTALL)


def _others_write(state, with_group):
    """Whether somebody other than its owner may change an entry: owners are this user and root."""
    mask = stat.S_IWOTH | (stat.S_IWGRP if with_group else 0)
    if state.st_uid not in (os.getuid(), 0):
        return True
    # In sticky folders everybody may make entries, and only owners take them away.
    return bool(state.st_mode & mask) and not (stat.S_ISDIR(state.st_mode) and
                                               state.st_mode & stat.S_ISVTX)


def check_folder(folder, is_own):
    """Raises where others could put something into a folder or take it away: what is in it is run.
    `is_own` is the folder that nobody named, where the group has nothing to do either."""
    refused = None
    state = os.lstat(folder)
    if is_own and (not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or
                   state.st_mode & (stat.S_IWOTH | stat.S_IWGRP)):
        refused = folder
    path = os.path.realpath(folder)
    # In a folder named by the user that is sticky others could still make what is not there yet.
    if not is_own and os.stat(path).st_mode & stat.S_IWOTH:
        refused = path
    while refused is None:
        if _others_write(os.stat(path), with_group=False):
            refused = path
        if path == os.path.dirname(path):
            break
        path = os.path.dirname(path)
    if refused is not None:
        raise DtileInvalid(f"{refused} could be written to by others; remove it, or name another "
                           "folder: dtile.build(source, folder=...)")


def is_trusted(path):
    """Whether a file in such a folder is one of this user or of root that others cannot write."""
    state = os.lstat(path)
    return stat.S_ISREG(state.st_mode) and not _others_write(state, with_group=False)


def own_folder():
    """A folder for what was built that nobody else can write to."""
    folder = os.path.join(tempfile.gettempdir(), f"dtile-{os.getuid()}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    check_folder(folder, is_own=True)
    return folder


def clean(folder, keep):
    """Throws away what was not used for long, the oldest first where there is too much. Programs
    that have a library open keep it."""
    entries = []
    now = time.time()
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        try:
            state = os.lstat(path)
            if stat.S_ISDIR(state.st_mode) and name.startswith(("build-", "tune-")):
                # Left by a build that was killed.
                if now - state.st_mtime > 86400:
                    shutil.rmtree(path, ignore_errors=True)
            elif stat.S_ISREG(state.st_mode) and _MADE.match(name) and path != keep:
                entries.append((state.st_mtime, state.st_size, path))
        except OSError:
            # Another process cleans as well.
            continue
    total = 0
    for used, size, path in sorted(entries, reverse=True):
        total += size
        if now - used > MOST_DAYS * 86400 or total > MOST_BYTES:
            try:
                os.unlink(path)
            except OSError:
                pass
