-- Settles messages that failed: redelivered by the policy, or after a delay that the caller gives; dead when the
-- budget is spent. Returns for each what became of it, or a verdict; -2 where the policy is of a kind that only a later
-- version knows: then nothing is done.
-- drains
local consumer, seed, default_policy = ARGV[1], ARGV[2], ARGV[3]
-- items from ARGV[4]: id, token, delay (milliseconds; empty: the policy's), charge (1 or 0), error
-- needs: settle_messages, can_judge, judge, wake_one
if not can_judge() then
  return -2
end
return settle_messages(4, 5, function(id, state, head, i)
  local failure =
    { delay = tonumber(ARGV[i + 2]), charge = ARGV[i + 3] == '1', consumer = consumer, error = ARGV[i + 4] }
  return judge(id, state, head, 'nacked', failure)
end, wake_one)
