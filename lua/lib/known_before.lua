-- The items that a call found known, as recorded with it when it was done before (lib/done): numbers, and names of places.
-- needs: register
-- gives: known_before
local function known_before()
  local known = {}
  for word in (register:match(' (.*) ') or ''):gmatch('%S+') do
    known[#known + 1] = tonumber(word) or word
  end
  return known
end
