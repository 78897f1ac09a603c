-- Mutes a group of dead letters, so that it counts as no trouble, or no longer. Returns 1; 0 where nothing was done, since it
-- is so already, or there is no such group; -1: too many groups are muted.
local group, upto, act = ARGV[1], ARGV[2], ARGV[3] -- group: its name, 12 characters; act: as in lib/note_act
-- upto: milliseconds; 0: until a letter of the group dies; empty: unmute it
local MOST, FOR = 1000, 2592000000 -- groups; milliseconds: 30 days
local counters, groups, audit, muted = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
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
-- A setting that is JSON, as a table; an empty one where it cannot be read, since that must not stop the queue.
local function read_json(text)
  local decoded, value = pcall(cjson.decode, text or '')
  return decoded and type(value) == 'table' and value or {}
end
-- Notes what an operator did, or had done; the newest thousand notes of a queue stay.
--   did: what was done, in a word; by: who, as JSON; user: of Redis; then more, names and values
local MOST_NOTES = '1000'

local function note_audit(did, by, user, ...)
  redis.call('XADD', audit, 'MAXLEN', '~', MOST_NOTES, '*', 'did', did, 'by', by, 'user', user, ...)
  redis.call('PERSIST', audit) -- the queue may have been deleted (delete), and be there again
end
-- Notes an act of an operator that takes one call.
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
redis.call('HINCRBY', counters, 'mutes', 1) -- who remembers the groups reads them again
note_once(act)
return 1
