-- Mutes a group of dead letters, so that it is not reported as a problem, or unmutes it. Returns 1; 0 if nothing was done,
-- since it is so already, or the group does not exist; -1: too many groups are muted.
local group, upto, act = ARGV[1], ARGV[2], ARGV[3] -- group: its name, 12 characters; act: as in lib/note_act
-- upto: milliseconds; 0: until another message of the group dies; empty: unmute it
local MOST, FOR = 1000, 2592000000 -- groups; milliseconds: 30 days
local counters, groups, audit, muted = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
-- The server's clock in whole milliseconds, read once per script (I11).
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
-- The half of a message that is written once; only its priority may change, and a redrive may edit it:
--   7 bytes  birth: its millisecond * 4096 + its number there; unique among what is sent to a queue
--   1 byte   flags: the priority in the low four bits, 0x10 if an expiry follows, 0x80 for a message that is not kept
--            when it fails (persistent=False); the other bits are the sender's
--   6 bytes  expiry in milliseconds, only with that flag
--   …        fields, headers and body, as the sender packed them; scripts read only the first fields (lib/lanes_in)
-- Flags of 0x0F, and the mark of a version after them: a record of a later form (lib/is_later).

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
-- A setting that is JSON, as a table; an empty one if it cannot be read, since that must not stop the queue.
local function read_json(text)
  local decoded, value = pcall(cjson.decode, text or '')
  return decoded and type(value) == 'table' and value or {}
end
-- Records an act of an operator, or one that an operator had ordered; a queue keeps the newest thousand notes.
--   did: the act, in a word; by: the operator, as JSON; user: the Redis user; then more names and values
local MOST_NOTES = '1000'

local function note_audit(did, by, user, ...)
  redis.call('XADD', audit, 'MAXLEN', '~', MOST_NOTES, '*', 'did', did, 'by', by, 'user', user, ...)
  redis.call('PERSIST', audit) -- the queue may have been deleted (delete), and created again
end
-- Records an act of an operator that takes one call.
--   act: as in lib/note_act; empty: no note
local function note_once(act)
  local told = read_json(act)
  if told[1] then
    note_audit(told[2], told[3], told[4], 'act', told[1], 'chosen', told[5], 'how', told[6])
  end
end
local known = redis.call('HGET', muted, group)
if upto == '' then
  if redis.call('HDEL', muted, group) == 0 then
    return 0
  end
  redis.call('HINCRBY', counters, 'mutes', 1)
  note_once(act)
  return 1
end
local last = redis.call('ZRANGE', groups, '(' .. group .. '\255', '[' .. group, 'BYLEX', 'REV', 'LIMIT', 0, 1)[1]
local at, before = (known or ''):match('^(%d+) (%d+)$')
local died = last and at and last:sub(13, 18) > pack_number(tonumber(at), 6)
if not last or before == upto and not (upto == '0' and died) then
  return 0
elseif not known and redis.call('HLEN', muted) >= MOST then
  return -1
end
redis.call('HSET', muted, group, string.format('%.0f %s', now, upto))
redis.call('PEXPIRE', muted, FOR)
redis.call('HINCRBY', counters, 'mutes', 1) -- a client that remembers the groups reads them again
note_once(act)
return 1
