-- For the assembled scripts (`python -m tests.assembled_lua`), not for the fragments of lua/lib alone.
std = "lua51"
read_globals = { "redis", "cjson", "KEYS", "ARGV" }

-- Not in Redis' sandbox; and math.random is seeded alike in each script: randomness is passed in (I11).
not_globals = {
  "dofile", "io", "loadfile", "math.random", "math.randomseed", "module", "os", "package", "print", "require",
}

-- Included text stands deeper than in its own file; StyLua sees to the width there.
max_line_length = false

ignore = {
  "431", -- a parameter of a fragment may bear the name of a script's argument: it usually is that argument

  -- Functions that a fragment offers and not every script that includes it uses. By name, so that an unused
  -- key, argument or local is still found.
  "211/bury",
  "211/expiry_of",
  "211/format_state",
  "211/member_of",
  "211/pack_birth",
  "211/read_record",
  "211/score_of",
  "211/settle",
}
