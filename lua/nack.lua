-- Settles messages that failed: redelivered by the policy, or after a delay that the caller gives; dead when the
-- budget is spent. Returns for each what became of it, or a verdict; -2 where the policy is of a kind that only a later
-- version knows: then nothing is done.
-- drains
local consumer, seed, default_policy = ARGV[1], ARGV[2], ARGV[3]
local delay, charge, error = tonumber(ARGV[4]), ARGV[5] == '1', ARGV[6] -- delay: milliseconds; empty: the policy's
-- items from ARGV[7]: held (lib/settled)
-- needs: settle_messages, can_judge, judge, wake_one
if not can_judge() then
  return -2
end
return settle_messages(7, function(id, state, head)
  local failure = { delay = delay, charge = charge, consumer = consumer, error = error }
  return judge(id, state, head, 'nacked', failure)
end, wake_one)
