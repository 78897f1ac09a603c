-- When a message is due after a delay: never in the millisecond of its birth, not even after the clock stepped back (lib/order).
-- needs: now
-- gives: due_in
local function due_in(delay, head)
  local due = now + delay
  return due == math.floor(head.birth / 4096) and due + 1 or due
end
