-- Makes the scheduled messages that have fallen due ready. Returns how many.
-- drains
local limit = ARGV[1]
local ready, scheduled, wake = KEYS[1], KEYS[2], KEYS[3]
-- The server's clock in whole milliseconds, read once a script (I11).
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
-- The immutable half of a message, written once by send:
--   7 bytes  birth: its millisecond * 4096 + its number there; unique among what is sent to a queue
--   1 byte   flags: the priority in the low four bits, 0x10 if an expiry follows, 0x80 for a message that is not kept
--            when it fails (persistent=False); the other bits are the sender's
--   6 bytes  expiry in milliseconds, only with that flag
--   …        what the sender packed: fields, headers and body; no script looks into it, and none writes it again
-- Flags of 0x0F, and the mark of a version after them: a record of a later form (lib/later).

-- A whole number in `width` bytes, at most seven. Each step is spelled out, since a loop costs Redis a command's time.
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
-- The order of an index (I8): priority, then due time, then send order. The score holds priority and due time. Redis
-- sorts ties of the score by the bytes of the member, so the member begins with the send order. While the message is
-- due when it was born, that is its number within the millisecond, since the score holds the millisecond already (2
-- bytes, the first 16 to 31). Otherwise it is 9 - priority and the whole birth (8 bytes, the first 0 to 9).
-- A scheduled message is never due in the millisecond of its birth, not even after the clock stepped back: promote
-- reads the priority from the member.
local BAND = 2 ^ 42

local function score_of(priority, due)
  return (9 - priority) * BAND + due
end

-- The send order but its last byte, which is that of the birth.
local function order_of(head, due)
  local number = head.birth % 4096
  local last = number % 256
  if (head.birth - number) / 4096 == due then
    return string.char(16 + (number - last) / 256)
  end
  return string.char(9 - head.priority) .. pack_number((head.birth - last) / 256, 6)
end

local function member_of(id, head, due)
  return order_of(head, due) .. string.char(head.birth % 256) .. id
end
-- The move of due messages: from the scheduled to the ready. Only the index moves; the state says the same.
local function promote(limit)
  local rows = redis.call('ZRANGEBYSCORE', scheduled, '-inf', now, 'WITHSCORES', 'LIMIT', 0, limit)
  local moved, members = {}, {}
  for i = 1, #rows, 2 do
    members[#members + 1] = rows[i]
    local first = rows[i]:byte(1)
    local priority = first < 10 and 9 - first or 4 -- or it was put off (lib/later)
    moved[#moved + 1], moved[#moved + 2] = score_of(priority, tonumber(rows[i + 1])), rows[i]
  end
  if #members > 0 then
    redis.call('ZADD', ready, unpack(moved))
    redis.call('ZREM', scheduled, unpack(members))
  end
  return #members
end
-- Puts one token on the list, never more. It wakes one waiting client, whose claim passes it on where work is left.
-- So no client polls, and a message wakes one of a thousand.
local function wake_one()
  if redis.call('LLEN', wake) == 0 then
    redis.call('LPUSH', wake, 1)
    redis.call('PEXPIRE', wake, 5000) -- a client looks before it waits, so the token may go; none is left behind (I13)
  end
end
local promoted = promote(limit)
if promoted > 0 then
  wake_one()
end
return promoted
