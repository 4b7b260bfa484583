# SPDX-License-Identifier: ISC
"""What the tests with real mail servers share."""
