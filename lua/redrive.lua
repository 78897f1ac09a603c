-- Returns dead letters or expired messages to their queue: the same id, a fresh budget, the history kept. Each message
-- moves in one step, so none is lost or duplicated. Returns the reply of lib/changed.
local number, part, by, limit = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local score, member = ARGV[5], ARGV[6] -- the row after which the range begins
local last_score, last_member = ARGV[7], ARGV[8] -- the last row of the range
local act, plan = ARGV[9], ARGV[10] -- as in lib/note_act and lib/planned
-- items from ARGV[11]: id; none: the first `limit` of the range
-- needs: done
if done then
  -- needs: changed_before
  return changed_before()
end
-- needs: changed, each_chosen, planned, bring_back, wake_one; keys: dead, expired
local source = part == 'dead' and dead or expired
local range = { limit = limit, score = score, member = member, last_score = last_score, last_member = last_member }
local redriven, next_score, next_member, leased = each_chosen(source, 11, planned(function(id, state, head, row)
  bring_back(id, state, head, source, row, by, '')
end), range)
if redriven > 0 then
  wake_one()
end
return changed(redriven, next_score, next_member, leased)
