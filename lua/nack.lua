-- Settles messages that failed: redelivered by the policy, or after the caller's delay; dead when the budget is spent. A
-- failure may count against the dependency of its message (lib/strike). Returns for each the outcome and the delay, or a
-- verdict; then `uncharged`, if it was not charged, and the dependency whose breaker it opens, if any; -2 if the policy is of a
-- kind that only a later version can read: then nothing is done.
-- drains
local consumer, seed, default_policy = ARGV[1], ARGV[2], ARGV[3]
local delay, charge, error = tonumber(ARGV[4]), ARGV[5] == '1', ARGV[6] -- delay: milliseconds; empty: the policy's
local counts, pauses = ARGV[7] == '1', ARGV[8] == '1' -- counts: against the dependency; pauses: the key, for the delay
-- items from ARGV[9]: held (lib/settled)
-- needs: settle_messages, can_judge, judge, wake_one, setting
if not can_judge() then
  return -2
end
local count, pause, finish = nil, nil, wake_one
if counts and (setting('breaker') or setting('gated')) then
  -- needs: strike, note_strikes
  count, finish = strike, function()
    note_strikes()
    wake_one()
  end
end
if pauses then
  -- needs: pause_key
  pause = pause_key
end
return settle_messages(9, function(id, state, head)
  local failure = { delay = delay, charge = charge, consumer = consumer, error = error }
  if count and head.needs and state.part == 'live' then
    count(id, state, head, failure)
  end
  if pause and head.lane then
    pause(id, head, delay or 0)
  end
  local became = judge(id, state, head, 'nacked', failure)
  if not failure.charge then
    became = (became:find(' ') and became or became .. ' ') .. ' uncharged ' .. (failure.opened or '')
  end
  return became
end, finish)
