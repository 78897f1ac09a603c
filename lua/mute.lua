-- Mutes a group of dead letters, so that it is not reported as a problem, or unmutes it. Returns 1; 0 if nothing was done,
-- since it is so already, or the group does not exist; -1: too many groups are muted.
local group, upto, act = ARGV[1], ARGV[2], ARGV[3] -- group: its name, 12 characters; act: as in lib/note_act
-- upto: milliseconds; 0: until another message of the group dies; empty: unmute it
local MOST, FOR = 1000, 2592000000 -- groups; milliseconds: 30 days
-- needs: now, pack_number, note_once; keys: muted, groups, counters
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
