-- Whether a later version wrote a message in a form of its own: its state line begins with the version that reads it,
-- ">=1.4 ", or its record has that after birth and flags of 0x0F. Only the holder of such a message is known, since every
-- form has +token or -token. The message is left alone; the index rows that lead to it are put off, so that it blocks no
-- other message, and a version that can read it finds it.
-- gives: is_later, AGAIN
local MARK, FLAGS, AGAIN = '^>=%d[%d.]* ', 0x0F, 60000 -- milliseconds until it is checked again

local function is_later(record, text)
  return text and text:find(MARK) ~= nil or record:byte(8) == FLAGS and record:find(MARK, 9) ~= nil
end
