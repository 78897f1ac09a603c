-- For the text that is joined of the modules (`python -m tests.joined_lua`).
std = "lua51"
read_globals = { "redis", "cjson", "KEYS", "ARGV" }

-- Not in Redis' sandbox; and math.random is seeded alike at each call: randomness is passed in (I11).
not_globals = {
  "dofile", "io", "loadfile", "math.random", "math.randomseed", "module", "os", "package", "print", "require",
}

max_line_length = false -- tests/joined_lua.py sees to the width of the modules
