-- Gives back messages that were not handled, or should not be charged: due now, at their old position (I8), or after a
-- delay. A dead letter rests for the same time. Returns a verdict for each.
-- drains
local begun = ARGV[1] == '1' -- 0: the holder had not begun them, so they do not count as attempts (lib/attempts)
local delay = tonumber(ARGV[2]) -- milliseconds
-- items from ARGV[3]: held (lib/settled)
-- needs: settle_messages, setting, holder, put, outcome, wake_one, count_untried, taken_up, now, expiry_of, bury, due_in
-- needs: keys: counters
local live = 0
return settle_messages(3, function(id, state, head)
  local waits = delay > 0 and state.part == 'live'
  local expiry = waits and expiry_of(head, state)
  state.released = state.released + 1
  live = live + (state.part == 'live' and 1 or 0)
  if begun then
    taken_up(state)
  else
    count_untried(state)
  end
  redis.call('HINCRBY', counters, 'released', 1)
  if expiry and now + delay >= expiry then -- it would be due after its expiry (I7)
    return bury(id, state, head, 'expired', 'expired', { cause = 'released' })
  elseif waits then
    state.due = due_in(delay, head)
  end
  if state.part == 'live' and head.lane and setting('per_key') then
    -- needs: token_back
    token_back(head.lane, function()
      put(id, state, head, waits)
    end)
  else
    put(id, state, head, waits, delay > 0 and state.part ~= 'live' and now + delay or nil)
  end
  outcome('released', id, head, state, delay, { consumer = setting('outcomes') and holder(state.token) })
end, function()
  local rate = live > 0 and setting('rate')
  if rate then -- each took a token when it was handed out
    -- needs: pace, spend
    local by_rate = pace(rate, redis.call('HGET', counters, 'rate_until'))
    if by_rate then
      spend(by_rate, -live)
    end
  end
  wake_one()
end)
