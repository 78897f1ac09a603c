-- Gives a key a limit of its own in place of the limit in the queue's rule, or removes it. If it is higher than before, the
-- next messages are let in. Returns 1 if that changed anything, 0 if not, -1 if the rule of the queue is not a limit: then
-- nothing is done.
local number, name, limit = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]) -- name: the key; limit: messages; empty: the rule's
local by, user = ARGV[4], ARGV[5]
-- needs: rule, read_lane, write_lane, let_in, note_audit, NARROWED; keys: settings
local lane = read_lane(number)
if limit and not rule.of_each then
  return -1
elseif limit == (lane and lane.limit or nil) then
  return 0
end
lane = lane or { of = 'key', name = name }
lane.limit = limit
redis.call('HSET', settings, 'narrowed', NARROWED) -- first: it may be lower than before (lib/narrow)
write_lane(number, lane)
if rule.limit < math.huge then
  let_in({ number })
end
note_audit('limited', by, user, 'chosen', 'key ' .. name .. (limit and ' to ' .. limit or ' as others'))
return 1
