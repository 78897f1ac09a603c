"""Where this checkout is."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LUA = ROOT / "lua"
MODULES = {file.stem: file for file in sorted(LUA.glob("*.lua"))}
"""The files of the Lua modules, by their names."""
