-- The half of a message that is written once; only its priority may change, and a redrive may edit it:
--   7 bytes  birth: its millisecond * 4096 + its number there; unique among what is sent to a queue
--   1 byte   flags: the priority in the low four bits, 0x10 if an expiry follows, 0x80 for a message that is not kept
--            when it fails (persistent=False); the other bits are the sender's
--   6 bytes  expiry in milliseconds, only with that flag
--   …        fields, headers and body, as the sender packed them; scripts read only the first fields (lib/lanes_in)
-- Flags of 0x0F, and the mark of a version after them: a record of a later form (lib/is_later).
-- gives: pack_number

-- A whole number in `width` bytes, at most seven. Each step is spelled out, since a loop costs as much as a command.
local function pack_number(value, width)
  local g = value % 256
  value = (value - g) / 256
  local f = value % 256
  value = (value - f) / 256
  local e = value % 256
  value = (value - e) / 256
  local d = value % 256
  value = (value - d) / 256
  local c = value % 256
  value = (value - c) / 256
  local b = value % 256
  return string.char((value - b) / 256 % 256, b, c, d, e, f, g):sub(-width)
end
