-- Lets in the heads of lanes, once the messages that are due by now are at their places (`due_first`): one that was delayed
-- may be the head. Defines the large fragments when they are needed: most scripts let no message in.
--   leaving: as in lib/promote
-- once
-- gives: let_in, due_first
local are_moved, made
local function due_first(leaving)
  if not are_moved then
    are_moved = true
    -- needs: promote, wake_one
    if promote(nil, leaving) > 0 then
      wake_one()
    end
  end
end

local function let_in(...)
  due_first()
  if not made then
    -- needs: heads_in
    made = heads_in
  end
  made(...)
end
