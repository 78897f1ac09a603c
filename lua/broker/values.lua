-- A whole number as text, for an argument of a command: Redis would print a number with up to 17 digits, which takes longer
-- than most commands.
function Values.digits(number)
  return string.format('%.0f', number)
end

-- The half of a message that is written once; only its priority may change, and a redrive may edit it:
--   7 bytes  birth: its millisecond * 4096 + its number there; unique among what is sent to a queue
--   1 byte   flags: the priority in the low four bits, 0x10 if an expiry follows, 0x80 for a message that is not kept
--            when it fails (persistent=False); the other bits are the sender's
--   6 bytes  expiry in milliseconds, only with that flag …        fields, headers and body, as the sender packed them;
--   scripts read only the first fields (Record.lanes_in)
-- Flags of 0x0F, and the mark of a version after them: a record of a later form (Record.is_later).

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

-- A duration in the queue's settings, in milliseconds; nil if the text is not one, which counts as unset.
function Values.span(text)
  local value = tonumber(text and text:match('^%d+$') or nil)
  return value and value > 0 and value <= 315360000000 and value or nil -- ten years
end

-- The milliseconds between two messages by a rate: N/SPAN, such as 100/s or 5/10m; nil: it cannot be read: no limit.
local LONGEST = 2 ^ 42 -- milliseconds
local UNITS = { ms = 1, s = 1000, m = 60000, h = 3600000, d = 86400000 }

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
