-- Dead letters and expired messages that were kept for as long as the queue's settings say are dropped, and counted
-- as discarded (I14). Returns how many.
local messages, states, history, settings = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local ready, scheduled, expiring = KEYS[5], KEYS[6], KEYS[7]
local dead, expired, counters, outcomes, leases = KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local limit = tonumber(ARGV[1])
-- @include lib/now
-- @include lib/record
-- @include lib/state
-- @include lib/place
-- @include lib/stand
-- @include lib/bury
-- @include lib/id_of
-- @include lib/chosen
local retired = 0
local function retire(index, kept_for)
  if type(kept_for) == 'number' and kept_for >= 0 then -- else it is damaged
    each_chosen(index, #ARGV + 1, limit - retired, now - kept_for, function(id, state, head, member)
      discard(id)
      redis.call('ZREM', index, member)
      outcome('discarded', id, head, state, 0, { cause = 'retired' })
      retired = retired + 1
    end)
  end
end
local said = read_strategy()
retire(dead, said.dead_for)
retire(expired, said.expired_for)
return retired
