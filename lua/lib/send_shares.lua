-- Sends the messages of a commit in each queue (`commit.lua`). Returns those that were not sent, since a dead letter has
-- their id: the queue's number and the position of the id among the arguments, in pairs; the position is below 0 if a
-- known message has another key.
-- needs: args: grace
-- gives: send_shares
local function send_shares(queues)
  local blocked = {}
  for n, q in ipairs(queues) do
    for _, group in ipairs(q.groups) do
      local known = q.add(ARGV, group.first, group.first + 2 * group.size - 1, group.delay, group.ttl, '')
      for k = 1, #known, 2 do
        local at = group.first + 2 * known[k] - 2
        if known[k + 1]:find('^dead') then
          blocked[#blocked + 1], blocked[#blocked + 2] = n, at
        end
        if known[k + 1]:find('/key', 1, true) then
          blocked[#blocked + 1], blocked[#blocked + 2] = n, -at
        end
      end
    end
    q.add_staged(q.member, grace)
  end
  return blocked
end
