-- A whole number as text, for an argument of a command: Redis would print a number with up to 17 digits, which takes longer
-- than most commands.
-- gives: digits
local WHOLE = string.format('%d', 2 ^ 43) == '8796093022208' and '%d' or '%.0f' -- %d is faster, and has 32 bits on some servers

local function digits(number)
  return string.format(WHOLE, number)
end
