-- The first bytes of a long record, up to its expiry, from the state of its message; nil if the state does not have them.
-- needs: stated_head, pack_number
-- gives: head_bytes
local function head_bytes(text)
  local birth, flags, expires = stated_head(text)
  if not birth then
    return nil
  end
  return pack_number(birth, 7) .. string.char(flags) .. pack_number(expires, 6)
end
