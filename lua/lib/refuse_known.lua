-- Refuses a strict commit (`commit.lua`) if ids are known. Returns -3 and these: the queue's number and the position of the
-- id among the arguments, in pairs. nil: none is known, and the beginning of the call is recorded: cut off after that, a
-- repetition must not refuse the messages that the call has sent itself.
-- needs: register; keys: sender; args: number
-- gives: refuse_known
local function refuse_known(queues)
  local begun = number - 1 .. ' begun ' -- as a note of the call before it, so this one does not count as done (lib/done)
  if register and register:sub(1, #begun) == begun then
    return nil
  end
  local known = { -3 }
  for n, q in ipairs(queues) do
    for _, group in ipairs(q.groups) do
      for _, at in ipairs(q.known_in(ARGV, group.first, group.first + 2 * group.size - 1)) do
        known[#known + 1], known[#known + 2] = n, at
      end
    end
  end
  if #known > 1 then
    return known
  end
  redis.call('PSETEX', sender, '3600000', begun .. 0)
end
