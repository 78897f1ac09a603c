-- The birth, the flags, the expiry (0: none) and the lanes (nil: none) of a long record, from the state of its message
-- (lib/head_word); nil if the state does not have them.
-- gives: stated_head
local function stated_head(text)
  local at = text and text:find(' head=')
  if at then
    local birth, flags, expires = text:match('^ head=(%d+)/(%d+)/(%d+)/%d+', at)
    if birth and #birth <= 16 and #expires <= 14 and tonumber(flags) <= 255 then -- otherwise another program wrote that
      local lane, needs = text:match(' lane=(%d+)'), text:match(' needs=(%d+)')
      return tonumber(birth), tonumber(flags), tonumber(expires), tonumber(lane or nil), tonumber(needs or nil)
    end
  end
end
