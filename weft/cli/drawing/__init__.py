"""Tables, trees and plots of terminals, as text."""
