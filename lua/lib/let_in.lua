-- Lets in the heads of lanes, once the messages that are due by now are at their places (`due_first`): one that was delayed
-- may be the head. Makes lib/heads_in at the first call: it is large, and most scripts let no message in.
--   leaving: as in lib/promote
-- once
-- gives: let_in, due_first
local made
local function due_first(leaving)
  if not made then
    -- needs: heads_in, promote, wake_one
    if promote(nil, leaving) > 0 then
      wake_one()
    end
    made = heads_in
  end
end

local function let_in(...)
  due_first()
  made(...)
end
