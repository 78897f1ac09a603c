-- The policy that a program declares for the queue; the last declaration wins. Returns the one it replaces.
local policy = KEYS[1]
local declared = ARGV[1]
local replaced = redis.call('GET', policy)
if replaced ~= declared then
  redis.call('SET', policy, declared)
end
return replaced
