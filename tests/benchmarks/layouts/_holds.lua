local function holds(token, text)
  return text and text:find(' +' .. token .. ' ', 1, true) ~= nil
end
