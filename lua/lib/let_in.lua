-- Lets in the heads of lanes. Makes lib/heads_in at the first call: it is large, and most scripts let no message in.
-- once
-- gives: let_in
local made
local function let_in(...)
  if not made then
    -- needs: heads_in
    made = heads_in
  end
  made(...)
end
