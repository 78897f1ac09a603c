-- Numbers, durations and JSON, as texts have them.
Values.TEN_YEARS = 315360000000 -- milliseconds; no duration is longer
local WIDE = ('%d'):format(2 ^ 40) == '1099511627776' -- whether %d has 64 bits; on some servers it has 32
local HALF = 10 ^ 8 -- the lower eight digits of a number
local LONGEST = 2 ^ 42 -- milliseconds between two messages
local UNITS = { ms = 1, s = 1000, m = 60000, h = 3600000, d = 86400000 }

-- A whole number as text, for an argument of a command: Redis prints a number with up to 17 digits, which takes longer than
-- most commands. So does %.0f. Where %d has 32 bits, a long number is printed as two.
function Values.digits(number)
  if WIDE or number < HALF then
    return string.format('%d', number)
  end
  local low = number % HALF
  return string.format('%d%08d', (number - low) / HALF, low)
end

-- How many messages, as an argument of a command. Most calls are about one.
function Values.count(number)
  return number == 1 and '1' or Values.digits(number)
end

-- A whole number in `width` bytes, at most seven. Each step is spelled out, since a loop costs as much as a command.
function Values.packed(value, width)
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

-- The number in six or seven bytes (Values.packed).
function Values.unpacked(a, b, c, d, e, f, g)
  local number = ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f
  return g and number * 256 + g or number
end

-- A duration in the queue's settings, in milliseconds; nil if the text is not one, which counts as unset.
function Values.span(text)
  local value = tonumber(text and text:match('^%d+$') or nil)
  return value and value > 0 and value <= Values.TEN_YEARS and value or nil
end

-- The milliseconds between two messages by a rate: N/SPAN, such as 100/s or 5/10m; nil: it cannot be read: no limit.
function Values.interval_of(rate)
  local count, spans, unit = rate:match('^(%d+)/(%d*)(%a+)$')
  count, spans = tonumber(count), tonumber(spans == '' and 1 or spans)
  if not count or count < 1 or not spans or spans < 1 or not UNITS[unit] then
    return nil
  end
  local interval = spans * UNITS[unit] / count
  return interval > 0 and interval <= LONGEST and interval or nil
end

-- A setting that is JSON, as a table; an empty one if it cannot be read, since that must not stop the queue.
function Values.json(text)
  local decoded, value = pcall(cjson.decode, text or '')
  return decoded and type(value) == 'table' and value or {}
end
