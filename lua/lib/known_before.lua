-- The items that a call knew already, as noted with it when it was done before (lib/done).
-- needs: register
-- gives: known_before
local function known_before()
  local known = {}
  for n in (register:match(' (.*) ') or ''):gmatch('%d+') do
    known[#known + 1] = tonumber(n)
  end
  return known
end
