"""Lanes of a queue, the messages of one key or one dependency: their lengths, the holders of their seats.

It reads lanes for people, by plain commands. The rules are in `lua/README.md` ("Lanes", "Outages"), their
reasons in lua/lanes.lua, lua/seats.lua and lua/rates.lua (keys), lua/breaker.lua, lua/signs.lua and
lua/gates.lua (outages).
"""
