-- Lets in the heads of lanes (lib/heads_in), which is made at the first call: it takes much, and most scripts let nobody in.
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
