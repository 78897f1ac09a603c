-- Removes waiting messages permanently. Leased messages stay. Returns the reply of lib/changed.
-- drains
local number, place, limit = ARGV[1], ARGV[2], ARGV[3] -- place: ready, scheduled, dead or expired
local score, member = ARGV[4], ARGV[5] -- the row after which the range begins
local last_score, last_member = ARGV[6], ARGV[7] -- the last row of the range
local act, plan = ARGV[8], ARGV[9] -- as in lib/note_act and lib/planned
-- items from ARGV[10]: id; none: the first `limit` of the range
-- needs: done
if done then
  -- needs: changed_before
  return changed_before()
end
-- needs: changed, each_chosen, planned, ungroup, drop, leave, outcome; keys: ready, scheduled, dead, expired, counters
local index = ({ ready = ready, scheduled = scheduled, dead = dead, expired = expired })[place]
local range = { limit = limit, score = score, member = member, last_score = last_score, last_member = last_member }
local purged, next_score, next_member, leased = each_chosen(index, 10, planned(function(id, state, head, row, _, at)
  if place == 'dead' then
    ungroup(state, row)
  end
  drop({ id })
  leave(id, at, row)
  outcome('purged', id, head, state, 0)
end), range, place == 'scheduled' and ready or nil)
if purged > 0 then
  redis.call('HINCRBY', counters, 'purged', purged)
end
return changed(purged, next_score, next_member, leased)
