-- Whether a row of `groups` contradicts the state of its message, and was left behind.
-- needs: group_row
-- gives: left_group
local function left_group(row, text)
  local part, mark, died = text:match('^(%a+)/?%a* ([+-])%S* (%d+)')
  local expected = died and group_row(text:match(' group=(%S*)') or '', died, '')
  return part ~= nil and (part ~= 'dead' or mark == '+' or row:sub(1, 18) ~= expected)
end
