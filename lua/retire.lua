-- Discards dead letters and expired messages that are older than the queue's settings allow, and counts them (I14).
-- Returns how many.
-- drains
local limit = tonumber(ARGV[1])
local MOST = 1000 -- rows that one call checks (I9): those of a later form stay, perhaps in front
-- needs: each_chosen, now, ungroup, drop, leave, outcome, read_strategy; keys: dead, expired, counters
local retired = 0
local function retire(index, kept_for)
  local sound = type(kept_for) == 'number' and kept_for >= 0 -- otherwise it is damaged
  local range = { score = sound and '-inf' or '', member = '', last_score = sound and now - kept_for, last_member = '\255' }
  local looked = 0
  while range.score ~= '' and retired < limit and looked < MOST do
    range.limit = limit - retired
    looked = looked + range.limit
    local _, score, member = each_chosen(index, #ARGV + 1, function(id, state, head, row)
      if index == dead then
        ungroup(state, row)
      end
      redis.call('HINCRBY', counters, 'discarded', drop({ id }))
      leave(id, index, row)
      outcome('discarded', id, head, state, 0, { cause = 'retired' })
      retired = retired + 1
    end, range)
    range.score, range.member = score, member
  end
end
local strategy = read_strategy()
retire(dead, strategy.dead_for)
retire(expired, strategy.expired_for)
return retired
