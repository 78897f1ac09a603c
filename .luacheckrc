-- For the assembled scripts (`python -m tests.assembled_lua`); tests/scripts/test_needs.py checks each file alone.
std = "lua51"
read_globals = { "redis", "cjson", "KEYS", "ARGV" }

-- Not in Redis' sandbox; and math.random is seeded alike in each script: randomness is passed in (I11).
not_globals = {
  "dofile", "io", "loadfile", "math.random", "math.randomseed", "module", "os", "package", "print", "require",
}

-- Included text stands deeper than in its own file; StyLua sees to the width there.
max_line_length = false

ignore = {
  "43[12]", -- a fragment in a block may call its own as the block, or an argument of the script, is called

  -- Names of fragments that give several, where a script needs but some of them. By name, so that an unused key,
  -- argument or local is still found.
  "211/AGAIN",
  "211/expiry_of",
  "211/format_state",
  "211/member_of",
  "211/read_record",
  "211/score_of",
}
